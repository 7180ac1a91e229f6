package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A line of a control connection: a name and a handful of flags.
const longestLine = 64 << 10

// answer is what a command gives back, one JSON object in one line.
type answer map[string]any

var errUsage = errors.New(`unknown command; there are:
  user NAME [GROUP…]             a kubeconfig for a user with a certificate
  account NAMESPACE NAME         a kubeconfig for a service account, which is made if missing
  start SERVER [FLAG…]           start etcd, kube-apiserver or kube-controller-manager
  stop SERVER                    stop it with SIGTERM
  kill SERVER                    stop it with SIGKILL
  restart SERVER [FLAG…]         stop it with SIGTERM, start it again
  compact                        compact etcd up to now: older resource versions are gone
  shutdown                       stop everything`)

// serve answers commands, one a line, until the input ends.
func (p *plane) serve(input io.Reader, output io.Writer, shutdown func()) {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, longestLine)
	encoder := json.NewEncoder(output)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		if words[0] == "shutdown" {
			shutdown()
			return
		}
		begun := time.Now()
		result, err := p.execute(words)
		if err != nil {
			result = answer{"error": err.Error()}
		} else {
			result["seconds"] = time.Since(begun).Seconds()
		}
		if encoder.Encode(result) != nil {
			return
		}
	}
}

func (p *plane) execute(words []string) (answer, error) {
	p.commands.Lock()
	defer p.commands.Unlock()
	command, rest := words[0], words[1:]
	switch {
	case command == "user" && len(rest) >= 1:
		file, err := p.issueUser(rest[0], rest[1:])
		return answer{"kubeconfig": file}, err
	case command == "account" && len(rest) == 2:
		file, err := p.issueAccount(rest[0], rest[1])
		return answer{"kubeconfig": file}, err
	case command == "compact" && len(rest) == 0:
		return p.compact()
	case len(rest) >= 1 && p.ports[rest[0]] != 0:
		return answer{}, p.lifecycle(command, rest[0], rest[1:])
	default:
		return nil, errUsage
	}
}

func (p *plane) lifecycle(command, server string, flags []string) error {
	signal := syscall.SIGTERM
	switch command {
	case "start":
		return p.start(server, flags)
	case "restart":
		p.stop(server, signal)
		return p.start(server, flags)
	case "kill":
		signal = syscall.SIGKILL
	case "stop":
	default:
		return errUsage
	}
	if !p.stop(server, signal) {
		return fmt.Errorf("%s does not run", server)
	}
	return nil
}

// compact forgets all revisions but the latest, through etcd's JSON gateway.
func (p *plane) compact() (answer, error) {
	var found struct {
		Header struct {
			// A 64 bit number travels as a string.
			Revision string `json:"revision"`
		} `json:"header"`
	}
	// Any key will do, there or not: every answer carries the revision.
	if err := request(p.etcdHTTP, http.MethodPost, p.etcdURL()+"/v3/kv/range", map[string]any{"key": "AA=="}, &found); err != nil {
		return nil, err
	}
	body := map[string]any{"revision": found.Header.Revision, "physical": true}
	if err := request(p.etcdHTTP, http.MethodPost, p.etcdURL()+"/v3/kv/compaction", body, nil); err != nil {
		return nil, err
	}
	revision, err := strconv.ParseInt(found.Header.Revision, 10, 64)
	return answer{"revision": revision}, err
}
