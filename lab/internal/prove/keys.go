package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/services"
)

// keys hands out the keys that the clients work on. A key that has seen as many
// operations as the checker can take is replaced.
type keys struct {
	prefix string
	// create creates what a key names and returns its id; nil when there is nothing to create.
	create func(ctx context.Context, name string) (id int32, err error)

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

func newKeys(prefix string, active int, create func(context.Context, string) (int32, error)) *keys {
	k := &keys{prefix: prefix, create: create}
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

// pick returns one of the active keys and counts an operation on it; nil when what it
// names could not be created.
func (k *keys) pick(ctx context.Context, random *rand.Rand) *key {
	k.mu.Lock()
	i := random.IntN(len(k.active))
	if k.active[i].spent() {
		k.active[i] = k.fresh()
	}
	one := k.active[i]
	one.ops++
	k.mu.Unlock()
	if k.create != nil && !one.ensure(func() (int32, error) { return k.create(ctx, one.name) }) {
		return nil
	}
	return one
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
func (k *keys) note(one *key, outcome services.Outcome) {
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

// each calls read for every key that was handed out and created, and fails for one that
// cannot be read.
func (k *keys) each(read func(*key) services.Outcome) error {
	k.mu.Lock()
	made := slices.Clone(k.made)
	k.mu.Unlock()
	for _, one := range made {
		if k.create != nil && one.id == 0 {
			continue
		}
		if outcome := read(one); outcome != history.OK {
			return fmt.Errorf("the last read of %s is answered %s", one.name, outcome)
		}
	}
	return nil
}

// ensure creates what the key names unless that was done, one client at a time. It
// returns false when the key is not to be worked on: another client may try again when
// create was not applied, and no client when it failed otherwise.
func (k *key) ensure(create func() (id int32, err error)) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.created {
		id, err := create()
		if err == nil {
			k.id = id
		}
		k.created = !rowlock.NotApplied(err)
	}
	return k.id != 0
}
