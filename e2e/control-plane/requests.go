package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// No answer that we read is longer: objects of a few kilobytes.
const longestAnswer = 1 << 20

// A request that takes longer has failed; the readiness checks repeat theirs.
const requestWithin = 15 * time.Second

// httpClient trusts an authority and shows a certificate. It keeps no connections: the servers come and go.
func httpClient(trusted *authority, shown pair) (*http.Client, error) {
	config, err := trusted.trusting(shown)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	return &http.Client{Transport: transport, Timeout: requestWithin}, nil
}

// answerError is an answer other than a success.
type answerError struct {
	method, url string
	status      int
	body        []byte
}

func (e *answerError) Error() string {
	return fmt.Sprintf("%s %s answered %d: %s", e.method, e.url, e.status, bytes.TrimSpace(e.body))
}

// request sends a body, if there is one, as JSON, and decodes the answer, if it is wanted.
func request(client *http.Client, method, url string, body, answer any) error {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(encoded)
	}
	message, err := http.NewRequest(method, url, content)
	if err != nil {
		return err
	}
	message.Header.Set("Content-Type", "application/json")
	message.Header.Set("Accept", "application/json, */*")
	response, err := client.Do(message)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	received, err := io.ReadAll(io.LimitReader(response.Body, longestAnswer))
	if err != nil {
		return fmt.Errorf("read the answer of %s %s: %w", method, url, err)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return &answerError{method, url, response.StatusCode, received}
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(received, answer); err != nil {
		return fmt.Errorf("decode the answer of %s %s: %w", method, url, err)
	}
	return nil
}

// What the API server makes by itself shortly after it is ready. Scenarios may rely on these from the
// beginning.
var firstObjects = []string{
	"/api/v1/namespaces/default",
	"/api/v1/namespaces/kube-system",
	"/api/v1/namespaces/default/services/kubernetes",
	"/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
}

// notReady is the reason why a server cannot be used yet.
func (p *plane) notReady(server string) error {
	switch server {
	case etcd:
		return request(p.etcdHTTP, http.MethodGet, p.etcdURL()+"/health", nil, nil)
	case apiServer:
		if err := request(p.client, http.MethodGet, p.url()+"/readyz", nil, nil); err != nil {
			return err
		}
		for _, path := range firstObjects {
			if err := request(p.client, http.MethodGet, p.url()+path, nil, nil); err != nil {
				return err
			}
		}
		return nil
	default:
		return request(p.client, http.MethodGet, p.loopback(server)+"/healthz", nil, nil)
	}
}

// version is the API server's.
func (p *plane) version() (string, error) {
	var answer struct {
		GitVersion string `json:"gitVersion"`
	}
	err := request(p.client, http.MethodGet, p.url()+"/version", nil, &answer)
	return answer.GitVersion, err
}
