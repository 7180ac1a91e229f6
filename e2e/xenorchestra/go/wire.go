package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gorilla/websocket"
)

type object = map[string]any

// call is a request beside the SDK, for what it does not know.
func (t *tour) call(method, path string, header http.Header, body any) (*http.Response, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(t, method, t.root+path, sent)
	if err != nil {
		return nil, err
	}
	request.Header = header
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return http.DefaultClient.Do(request)
}

func known() http.Header {
	return http.Header{"Cookie": {"authenticationToken=" + adminToken}}
}

// read decodes an answer of that status.
func (t *tour) read(what string, response *http.Response, err error, status int) object {
	t.good(what, err)
	if err != nil {
		return object{}
	}
	defer response.Body.Close()
	t.Equal(what+": status", response.StatusCode, status)
	var found object
	if status != http.StatusNoContent {
		t.good(what+": JSON", json.NewDecoder(response.Body).Decode(&found))
	}
	return found
}

// sim asks the control handle.
func (t *tour) sim(verb string, body object) {
	response, err := t.call("POST", "/_sim/"+verb, http.Header{}, body)
	t.read(verb, response, err, 200)
}

func migrations(t *tour) {
	path := "/rest/v0/vms/" + worker1.String() + "/actions/migrate?sync=true"
	response, err := t.call("POST", path, known(), object{"hostId": xcp2})
	t.read("a migration", response, err, 204)
	vm, err := t.VM().GetByID(t, worker1)
	t.good("a VM that moved", err)
	t.Equal("its host", vm.Container, xcp2)
	response, err = t.call("POST", path, known(), object{"hostId": drHost})
	t.read("a migration to another pool", response, err, 204)
	vm, err = t.VM().GetByID(t, worker1)
	t.good("a VM that moved far", err)
	t.Equal("its pool", vm.PoolID, drPool)
	t.Equal("its host", vm.Container, drHost)
	t.sim("migrate", object{"machine": worker1, "host": xcp1})
}

// events checks the stream, and that a token made with a password opens it.
func events(t *tour) {
	pair := base64.StdEncoding.EncodeToString([]byte("admin@admin.net:admin"))
	body := object{"client": object{"id": "tour"}, "description": "a tour", "expiresIn": "1 hour"}
	// Go follows the 307 with the same body and credentials.
	response, err := t.call("POST", "/rest/v0/users/me/authentication_tokens", http.Header{"Authorization": {"Basic " + pair}}, body)
	made := t.read("a token by password", response, err, 201)
	token, _ := made["token"].(object)["id"].(string)
	t.Equal("the length of a token", len(token), 43)

	own := http.Header{"Cookie": {"authenticationToken=" + token}}
	stream, err := t.call("GET", "/rest/v0/events", own, nil)
	t.good("a stream", err)
	defer stream.Body.Close()
	t.Equal("its type", stream.Header.Get("Content-Type"), "text/event-stream")
	lines := bufio.NewScanner(stream.Body)
	name, data := next(lines)
	t.Equal("the first event", name, "init")
	path := fmt.Sprintf("/rest/v0/events/%v/subscriptions", data["id"])
	response, err = t.call("POST", path, own.Clone(), object{"collection": "VM", "fields": []string{"id", "$container"}})
	t.Equal("a subscription", t.read("a subscription", response, err, 201), object{"id": "VM"})
	t.sim("rename", object{"machine": worker1, "name": "renamed"})
	t.sim("migrate", object{"machine": worker1, "host": xcp2})
	name, data = next(lines)
	want := object{"$subscription": "VM", "id": worker1.String(), "$container": xcp2.String()}
	t.Equal("an update", []any{name, data}, []any{"update", want})
	t.sim("connection", object{"pool": labPool, "state": "disconnected"})
	name, data = next(lines)
	t.Equal("a removal", []any{name, data["id"]}, []any{"remove", worker1.String()})
	_, err = t.VM().GetByID(t, worker1)
	t.refused("a VM of a pool that is gone", err, 404, "no such VM ")
	t.sim("connection", object{"pool": labPool, "state": "connected"})
	name, data = next(lines)
	t.Equal("a return", []any{name, data["id"]}, []any{"add", worker1.String()})
	response, err = t.call("DELETE", path+"/VM", own.Clone(), nil)
	t.read("no subscription", response, err, 204)
}

// next is the name and the data of the next event that is no sign of life.
func next(lines *bufio.Scanner) (string, object) {
	var name string
	var data object
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "event: "):
			name = strings.TrimPrefix(line, "event: ")
		case strings.HasPrefix(line, "data: "):
			_ = json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &data)
		case line == "" && name != "ping":
			return name, data
		}
	}
	return "", nil
}

// socket checks JSON-RPC, with a password that no other way takes.
func socket(t *tour) {
	dialer := websocket.Dialer{TLSClientConfig: &tls.Config{InsecureSkipVerify: insecure()}}
	connection, _, err := dialer.DialContext(t, "ws"+strings.TrimPrefix(t.root, "http")+"/api/", nil)
	t.good("a socket", err)
	if err != nil {
		return
	}
	defer connection.Close()
	count := 0
	call := func(method string, params object) object {
		count++
		t.good(method, connection.WriteJSON(object{"jsonrpc": "2.0", "id": count, "method": method, "params": params}))
		for {
			var reply object
			if err := connection.ReadJSON(&reply); err != nil {
				t.good(method, err)
				return object{}
			}
			if reply["id"] == float64(count) {
				return reply
			}
		}
	}
	refused, _ := call("token.create", object{})["error"].(object)
	t.Equal("a token for nobody", refused["code"], float64(2))
	user, _ := call("session.signIn", object{"email": "svc-k8s@corp.lan", "password": "s3cret:x"})["result"].(object)
	t.Equal("who signed in", user["email"], "svc-k8s@corp.lan")
	token, _ := call("token.create", object{"expiresIn": "1 day"})["result"].(string)
	_, err = t.client(token).VM().GetAll(t, 1, "")
	t.good("the token of a socket", err)
	all, _ := call("xo.getAllObjects", object{"filter": object{"type": "pool"}})["result"].(object)
	t.Equal("all pools", len(all), 2)
	unknown, _ := call("vm.explode", object{})["error"].(object)
	t.Equal("an unknown method", unknown["code"], float64(-32601))
}
