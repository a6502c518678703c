package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/rowlock/rowlock/lab/internal/history"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// keys hands out the keys that the clients work on, and records what they do. A key that
// has seen as many operations as the checker can take, or could not be created, is
// replaced.
type keys struct {
	site

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

	creating sync.Once
	created  bool
	id       int32
}

func newKeys(s site, active int, create func(context.Context, string) (int32, error)) *keys {
	k := &keys{site: s, create: create}
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

// pick returns one of the active keys and counts an operation on it; nil when what it
// names could not be created. One client creates it, and the others wait.
func (k *keys) pick(ctx context.Context, random *rand.Rand) *key {
	k.mu.Lock()
	i := random.IntN(len(k.active))
	if one := k.active[i]; one.ops >= history.MaxOps || one.unknown >= history.MaxUnknown {
		k.active[i] = k.fresh()
	}

	one := k.active[i]
	one.ops++
	k.mu.Unlock()
	one.creating.Do(func() {
		var err error
		if k.create != nil {
			one.id, err = k.create(ctx, one.name)
		}
		one.created = err == nil
		if !one.created {
			k.mu.Lock()
			one.ops = history.MaxOps
			k.mu.Unlock()
		}
	})

	if !one.created {
		return nil
	}
	return one
}

// do runs an operation on a key and records it.
func (k *keys) do(client int, one *key, input any, call func() (any, error)) targets.Outcome {
	op := k.record(client, one.name, input, call)
	k.note(one, op.Outcome)
	return op.Outcome
}

// note counts an operation of unknown outcome on the key.
func (k *keys) note(one *key, outcome targets.Outcome) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if outcome == targets.Unknown {
		one.unknown++
	}
}

// first returns the name of an active key.
func (k *keys) first() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.active[0].name
}

// each calls read for every key that was handed out, and fails for one that cannot be read.
func (k *keys) each(read func(*key) targets.Outcome) error {
	k.mu.Lock()
	made := slices.Clone(k.made)
	k.mu.Unlock()
	for _, one := range made {
		if !one.created {
			continue
		}
		if outcome := read(one); outcome != targets.OK {
			return fmt.Errorf("the last read of %s is answered %s", one.name, outcome)
		}
	}
	return nil
}
