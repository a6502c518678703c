package local

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func TestLinesAreHandedOnWithTheirReplica(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var out bytes.Buffer
	s := spec(t, "serve")
	s.Args = []string{"serve", "-x"}
	s.Line = Prefixed(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}))
	set := start(t, s, 2)
	long := strings.Repeat("x", 3*maxLine/2)
	for _, line := range []string{"plain \\ words", long, ""} {
		if _, err := get(t, http.MethodPost, "http://"+set.Replicas()[1].Status().Admin+"/say", line); err != nil {
			t.Fatal(err)
		}
	}
	printed := func() string {
		mu.Lock()
		defer mu.Unlock()
		return out.String()
	}
	for _, want := range []string{
		`fake-1 | {"level":"INFO","msg":"config","args":"serve -x"}` + "\n",
		"fake-2 | plain \\ words\n",
		"fake-2 | " + long[:maxLine] + "\n",
		"fake-2 | " + long[maxLine:] + "\n",
	} {
		eventually(t, want[:min(len(want), 60)], func() bool { return strings.Contains(printed(), want) })
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A log of a service is not always a log: hostile or half lines must not confuse the set.
func TestNote(t *testing.T) {
	t.Parallel()
	p := &process{bound: make(chan struct{})}
	for _, line := range []string{
		`{"msg":"listening"`, `{}`, `{"msg":"we are \"listening\" now","server":"api","addr":"x"}`, `[1]`, `{"msg":1,"x":"listening"}`,
		`{"level":"ERROR","msg":"it broke","error":"badly"}`,
		`{"msg":"listening","server":"internal","addr":"i"}`, `{"msg":"listening","server":"admin","addr":"b"}`,
	} {
		p.note([]byte(line))
	}
	select {
	case <-p.bound:
		t.Fatal("bound without an API address")
	default:
	}
	p.note([]byte(`{"msg":"listening","server":"api","addr":"a"}`))
	p.note([]byte(`{"msg":"listening","server":"api","addr":"a2"}`)) // must not close bound twice
	<-p.bound
	if api, admin := p.addrs(); api != "a2" || admin != "b" {
		t.Errorf("addresses %q and %q", api, admin)
	}
	if p.lastError != "it broke: badly" {
		t.Errorf("last error %q", p.lastError)
	}
}
