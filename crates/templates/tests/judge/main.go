// Prints what Go itself makes of templates and regular expressions, as the vectors that our engine is
// tested with. Run: go run main.go > ../vectors.json
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"regexp"
	"strings"
	"text/template"
)

type inner struct{ Name, Empty string }
type data struct {
	Region, Zone, Long string
	Spot               bool
	Count              int
	Tags, None         map[string]string
	Inner              inner
}

var facts = data{
	Region: "eu-1", Long: "11111111-2222", Spot: true, Count: 3,
	Tags:  map[string]string{"team": "core", "a-b": "x y", "zero": ""},
	Inner: inner{Name: "n"},
}

type vector struct {
	Template string  `json:"template"`
	Text     *string `json:"text,omitempty"`
	Error    string  `json:"error,omitempty"`
}

type expression struct {
	Pattern     string   `json:"pattern"`
	Text        string   `json:"text"`
	Replacement string   `json:"replacement"`
	Valid       bool     `json:"valid"`
	Groups      []string `json:"groups,omitempty"`
	Replaced    string   `json:"replaced"`
}

func render(source string) vector {
	answer := vector{Template: source}
	parsed, err := template.New("t").Parse(source)
	if err != nil {
		answer.Error = "parse"
		return answer
	}
	var out strings.Builder
	if err := parsed.Execute(&out, facts); err != nil {
		answer.Error = "render"
		return answer
	}
	// Ours prints nothing where there is nothing, as html/template does.
	text := strings.ReplaceAll(out.String(), "<no value>", "")
	answer.Text = &text
	return answer
}

func match(pattern, text, replacement string) expression {
	answer := expression{Pattern: pattern, Text: text, Replacement: replacement}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return answer
	}
	answer.Valid = true
	answer.Groups = compiled.FindStringSubmatch(text)
	answer.Replaced = compiled.ReplaceAllString(text, replacement)
	return answer
}

// A random template of the grammar, so that combinations are tried that nobody thought of.
type maker struct{ *rand.Rand }

func (m maker) pick(of ...string) string { return of[m.Intn(len(of))] }

func (m maker) operand(depth int) string {
	if depth > 0 && m.Intn(4) == 0 {
		return "(" + m.pipeline(depth-1) + ")"
	}
	return m.pick(".Region", ".Zone", ".Long", ".Spot", ".Count", ".Tags", ".Tags.team", ".Tags.nope", ".None", ".",
		"$", "$.Region", "$x", "nil", "true", "1", "2", "0", "-1", "1.5", "1e2", "'a'", `"a"`, `"é"`, "`r`", ".Inner.Name", ".Nope", ".None.x",
		`"core"`, `"%v"`, `"%05d|%s"`, `"eu-1"`)
}

func (m maker) command(depth int) string {
	if m.Intn(3) == 0 {
		return m.operand(depth)
	}
	name := m.pick("and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len", "index", "slice", "print", "println", "printf", "html", "js", "urlquery")
	count := m.Intn(4)
	for i := 0; i < count; i++ {
		name += " " + m.operand(depth)
	}
	return name
}

func (m maker) pipeline(depth int) string {
	text := m.command(depth)
	for m.Intn(3) == 0 {
		text += " | " + m.command(depth)
	}
	return text
}

func (m maker) body(depth int) string {
	text := ""
	for count := m.Intn(3) + 1; count > 0; count-- {
		open, end := m.pick("{{ ", "{{- ", "{{"), m.pick(" }}", " -}}", "}}")
		kind := m.Intn(9)
		if depth == 0 && kind > 2 {
			kind = 0
		}
		switch kind {
		case 0, 1:
			text += open + m.pipeline(depth) + end
		case 2:
			text += m.pick(" text ", "\n", "}", "{")
		case 3:
			text += open + "if " + m.pipeline(depth) + end + m.body(depth-1) + "{{else}}" + m.body(depth-1) + "{{end}}"
		case 4:
			text += open + "with " + m.pick("", "$x := ") + m.pipeline(depth) + end + m.body(depth-1) + "{{else with .Region}}" + m.body(depth-1) + "{{end}}"
		case 5:
			text += open + "range " + m.pick("", "$x := ", "$x, $y := ") + m.pick(".Tags", "2", ".None", ".Tags.nope", m.pipeline(depth)) + end + m.body(depth-1) + m.pick("", "{{break}}", "{{continue}}x") + "{{end}}"
		case 6:
			text += "{{ $x := " + m.pipeline(depth) + " }}" + m.body(depth-1)
		case 7:
			text += "{{ $x = " + m.pipeline(depth) + " }}{{ $x }}"
		case 8:
			text += "{{ block " + m.pick(`"b"`, `"c"`) + " " + m.pipeline(depth) + " }}" + m.body(depth-1) + "{{end}}"
		}
	}
	return text
}

func (m maker) pattern() string {
	text := ""
	for count := m.Intn(6) + 1; count > 0; count-- {
		text += m.pick("a", "b", ".", "^", "$", `\d`, `\w+`, `\s`, `\b`, `\B`, "[a-c]", "[^a]", "(a|b)", "(?:ab)", "(?i)", "(?i:B)", "*", "+", "?", "{2}", "{1,2}", "{,2}", "{",
			"}", "]", "[", `\Q.*\E`, `\101`, `\x41`, `\x{e9}`, `\pL`, `\p{Greek}`, "é", "[[:alpha:]]", `[\d-]`, `[\W]`, "(?P<n>a)", "(?<m>b)", "|", "(", ")", `\<`, `\u`, `\z`, `\A`,
			"[a[b]", "[a&&b]", "[]a]", "[^]a]", "[a-]", `\_`, "(?s).", "(?m)^", "(?x)", "(?U)a*", `[\x41-\x43]`, `\0`, `\8`, `\1`, "[é-ü]", "[b-a]", "~~", "--", "#", " ", "[--a]", "[a~~b]")
	}
	return text
}

func main() {
	seed := maker{rand.New(rand.NewSource(7))}
	var templates []vector
	for _, source := range written {
		templates = append(templates, render(source))
	}
	seen := map[string]int{}
	for tries := 0; len(templates) < len(written)+600 && tries < 200000; tries++ {
		answer := render(seed.body(2))
		kind := answer.Error
		if answer.Text != nil && *answer.Text != "" {
			kind = "text"
		}
		// Most random templates are wrong somewhere: keep all that are right, and as many that are not.
		limit := map[string]int{"parse": 100, "render": 200, "": 50, "text": 1000}[kind]
		if seen[kind]++; seen[kind] > limit || strings.Contains(answer.Template, "html nil") {
			continue
		}
		templates = append(templates, answer)
	}
	var expressions []expression
	for _, pattern := range patterns {
		for _, text := range texts {
			expressions = append(expressions, match(pattern, text, "<$1>"))
		}
	}
	for i := 0; i < 800; i++ {
		replacement := seed.pick("x", "$1", "${1}W", "$1W", "$$", "${n}", "$n-", "$", "${", "$0", "$01", "[$m]")
		expressions = append(expressions, match(seed.pattern(), seed.pick(texts...), replacement))
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	fmt.Println(`{"templates": [`)
	for i, v := range templates {
		if i > 0 {
			fmt.Print(",")
		}
		encoder.Encode(v)
	}
	fmt.Println(`], "expressions": [`)
	for i, v := range expressions {
		if i > 0 {
			fmt.Print(",")
		}
		encoder.Encode(v)
	}
	fmt.Println(`]}`)
}
