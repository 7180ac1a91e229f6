package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Where the sections of roles.yaml come from: Kubernetes' own tests compare these files with what its API
// server creates. To ask the server's package instead would mean to compile most of client-go.
const policyFolder = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata"

var policyFiles = map[string][]string{
	"clusterRoles":        {"cluster-roles.yaml", "controller-roles.yaml"},
	"aggregated":          {"cluster-roles.yaml"},
	"clusterRoleBindings": {"cluster-role-bindings.yaml", "controller-role-bindings.yaml"},
	"roles":               {"namespace-roles.yaml"},
	"roleBindings":        {"namespace-role-bindings.yaml"},
}

// A role or a binding, of a cluster or a namespace.
type roleOrBinding struct {
	meta.ObjectMeta `json:"metadata"`
	Rules           []rbac.PolicyRule
	RoleRef         rbac.RoleRef
	Subjects        []rbac.Subject
}

var (
	sectionLine = regexp.MustCompile(`^(\w+):$`)
	// A role or binding; its rules or subjects may follow in lines that are deeper.
	nameLine = regexp.MustCompile(`^  "?([\w:.-]+?)"?:( .*)?$`)
	bodyLine = regexp.MustCompile(`^    [^ #]`)
)

// roles makes roles.yaml. Which roles and bindings there are, their order and the comments stay as they are.
func roles(present string, from kubernetes) (string, error) {
	text := strings.Builder{}
	section, known := "", map[string]roleOrBinding{}
	for line := range strings.Lines(present) {
		line = strings.TrimSuffix(line, "\n")
		if match := sectionLine.FindStringSubmatch(line); match != nil {
			var err error
			section = match[1]
			if known, err = readPolicies(from.folder, policyFiles[section]); err != nil {
				return "", err
			}
		}
		if match := nameLine.FindStringSubmatch(line); match != nil {
			name := match[1]
			if section == "aggregated" {
				name = "system:aggregate-to-" + name
			}
			found, exists := known[name]
			if !exists {
				return "", fmt.Errorf("Kubernetes has no %s in %s", name, section)
			}
			body, err := found.lines(section)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&text, "  %s:%s\n", scalar(match[1], ":"), body)
		} else if !bodyLine.MatchString(line) {
			text.WriteString(line + "\n")
		}
	}
	return text.String(), nil
}

// readPolicies reads what is of the whole cluster or in kube-system.
func readPolicies(folder string, names []string) (map[string]roleOrBinding, error) {
	all := map[string]roleOrBinding{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(folder, policyFolder, name))
		if err != nil {
			return nil, err
		}
		var list struct{ Items []roleOrBinding }
		if err := yaml.Unmarshal(text, &list); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, item := range list.Items {
			if item.Namespace == "" || item.Namespace == meta.NamespaceSystem {
				all[item.Name] = item
			}
		}
	}
	return all, nil
}

// lines are what follows the name in that section.
func (one roleOrBinding) lines(section string) (string, error) {
	switch section {
	case "clusterRoleBindings":
		if one.RoleRef.Name != one.Name {
			return "", fmt.Errorf("%s binds a role of another name: %s", one.Name, one.RoleRef.Name)
		}
		return " " + subjects(one.Subjects), nil
	case "roleBindings":
		return fmt.Sprintf("\n    role: %s\n    subjects: %s", scalar(one.RoleRef.Name, "::"), subjects(one.Subjects)), nil
	}
	text := strings.Builder{}
	for _, rule := range one.Rules {
		text.WriteString("\n    - " + flow(
			"apiGroups", list(rule.APIGroups), "resources", list(rule.Resources),
			"resourceNames", list(rule.ResourceNames), "nonResourceURLs", list(rule.NonResourceURLs),
			"verbs", list(rule.Verbs)))
	}
	return text.String(), nil
}

func subjects(all []rbac.Subject) string {
	texts := make([]string, len(all))
	for place, one := range all {
		texts[place] = flow("kind", one.Kind, "name", one.Name, "namespace", one.Namespace)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// flow is a mapping in one line, of names and values in turn; empty values are left out.
func flow(pairs ...string) string {
	var texts []string
	for place := 0; place < len(pairs); place += 2 {
		if pairs[place+1] != "" {
			texts = append(texts, pairs[place]+": "+pairs[place+1])
		}
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

func list(values []string) string {
	if len(values) == 0 {
		return ""
	}
	texts := make([]string, len(values))
	for place, value := range values {
		texts[place] = scalar(value, "*")
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// scalar is a text in YAML, in quotes if it has to be or contains that.
func scalar(text, mark string) string {
	if text == "" || strings.Contains(text, mark) {
		return `"` + text + `"`
	}
	return text
}
