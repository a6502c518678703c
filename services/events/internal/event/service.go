package event

import "context"

// Service adds events to a repository and reads them. It has no state, so any number of replicas may run. Find and
// Count are the repository's.
type Service struct {
	Repository

	// Value, such as RandomWord, returns the value of a created event.
	Value func() string
}

// Create adds an event with a value and returns it.
func (s *Service) Create(ctx context.Context) (Event, error) {
	value := s.Value()
	id, err := s.Add(ctx, New{Value: value})
	if err != nil {
		return Event{}, err
	}
	return Event{ID: id, Value: value}, nil
}

// Enqueue adds a pending event and returns its id.
func (s *Service) Enqueue(ctx context.Context) (ID, error) { return s.Add(ctx, New{Pending: true}) }
