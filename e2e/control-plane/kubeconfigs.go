package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Longer than any run.
const tokenSeconds = 24 * 60 * 60

// certificateUser are the lines by which a kubeconfig shows a certificate.
func certificateUser(shown pair) string {
	return fmt.Sprintf("    client-certificate-data: %s\n    client-key-data: %s\n",
		base64.StdEncoding.EncodeToString(shown.certificate), base64.StdEncoding.EncodeToString(shown.key))
}

// writeKubeconfig writes a kubeconfig whose user shows what `credentials` says.
func (p *plane) writeKubeconfig(file, user, credentials string) error {
	authority := base64.StdEncoding.EncodeToString(p.authority.files.certificate)
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: control-plane
clusters:
- name: control-plane
  cluster:
    server: %s
    certificate-authority-data: %s
contexts:
- name: control-plane
  context:
    cluster: control-plane
    user: %q
users:
- name: %q
  user:
%s`, p.url(), authority, user, user, credentials)
	return os.WriteFile(file, []byte(text), 0o600)
}

// issueUser makes a kubeconfig for a user with a certificate.
func (p *plane) issueUser(user string, groups []string) (string, error) {
	name := p.nextName(user)
	issued, err := p.authority.client(p.folder, name, user, groups)
	if err != nil {
		return "", err
	}
	file := filepath.Join(p.folder, name+".kubeconfig")
	return file, p.writeKubeconfig(file, user, certificateUser(issued))
}

// issueAccount makes a kubeconfig with a token of a service account. The account, and its namespace, are
// made if they are not there.
func (p *plane) issueAccount(namespace, account string) (string, error) {
	collection := p.url() + "/api/v1/namespaces"
	if err := p.ensure(collection, "Namespace", namespace); err != nil {
		return "", err
	}
	collection += "/" + url.PathEscape(namespace) + "/serviceaccounts"
	if err := p.ensure(collection, "ServiceAccount", account); err != nil {
		return "", err
	}
	body := map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"spec": map[string]any{"expirationSeconds": tokenSeconds},
	}
	var answer struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	if err := request(p.client, http.MethodPost, collection+"/"+url.PathEscape(account)+"/token", body, &answer); err != nil {
		return "", err
	}
	file := filepath.Join(p.folder, p.nextName(namespace+"-"+account)+".kubeconfig")
	user := "system:serviceaccount:" + namespace + ":" + account
	return file, p.writeKubeconfig(file, user, "    token: "+answer.Status.Token+"\n")
}

// ensure makes an object that needs nothing but a name.
func (p *plane) ensure(collection, kind, name string) error {
	body := map[string]any{
		"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name},
	}
	err := request(p.client, http.MethodPost, collection, body, nil)
	var answered *answerError
	if errors.As(err, &answered) && answered.status == http.StatusConflict {
		return nil
	}
	return err
}

// nextName is a file name of its own for each kubeconfig.
func (p *plane) nextName(who string) string {
	p.issued++
	plain := strings.Map(func(letter rune) rune {
		switch {
		case letter >= 'a' && letter <= 'z', letter >= 'A' && letter <= 'Z', letter >= '0' && letter <= '9', letter == '.':
			return letter
		default:
			return '-'
		}
	}, who)
	return fmt.Sprintf("issued-%d-%s", p.issued, plain)
}
