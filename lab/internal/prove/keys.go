package prove

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/rowlock/rowlock/lab/internal/history"
)

// keys hands out the keys that the clients work on. A key that has seen as many
// operations as the checker can take is replaced.
type keys struct {
	prefix string

	mu     sync.Mutex
	made   []*key
	active []*key
}

// key is one key, and what was created under its name.
type key struct {
	name         string
	ops, unknown int // guarded by keys.mu

	mu      sync.Mutex
	created bool
	id      int32
}

func newKeys(prefix string, active int) *keys {
	k := &keys{prefix: prefix}
	for range active {
		k.active = append(k.active, k.fresh())
	}
	return k
}

func (k *keys) fresh() *key {
	one := &key{name: fmt.Sprintf("%s-%04d", k.prefix, len(k.made)+1)}
	k.made = append(k.made, one)
	return one
}

func (k *key) spent() bool { return k.ops >= history.MaxOps || k.unknown >= history.MaxUnknown }

// pick returns one of the active keys and counts an operation on it.
func (k *keys) pick(random *rand.Rand) *key {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := random.IntN(len(k.active))
	if k.active[i].spent() {
		k.active[i] = k.fresh()
	}
	k.active[i].ops++
	return k.active[i]
}

// use counts an operation on a key that was picked before; false when it has been
// replaced or is to be.
func (k *keys) use(one *key) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if one.spent() {
		return false
	}
	one.ops++
	return true
}

// note counts an operation of unknown outcome on the key.
func (k *keys) note(one *key, outcome history.Outcome) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if outcome == history.Unknown {
		one.unknown++
	}
}

// first returns the name of an active key.
func (k *keys) first() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.active[0].name
}

// all returns all keys that were handed out.
func (k *keys) all() []*key {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*key(nil), k.made...)
}

// ensure returns the id of what create has made under the key's name, and calls it when
// nothing was made yet: once at a time, and again when it says that another client may
// try. An id of 0 says that the key is not to be worked on.
func (k *key) ensure(create func() (id int32, again bool)) int32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.created {
		return k.id
	}
	id, again := create()
	k.id, k.created = id, !again
	return id
}
