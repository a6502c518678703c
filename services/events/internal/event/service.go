package event

import "context"

// Service implements API on a repository. It has no state, so any number of replicas may run.
type Service struct {
	repo  Repository
	value func() string
}

var _ API = (*Service)(nil)

// NewService returns the domain's service on repo. value, such as RandomWord, returns the value of a created event.
func NewService(repo Repository, value func() string) *Service {
	return &Service{repo: repo, value: value}
}

// Create adds an event with a value and returns it.
func (s *Service) Create(ctx context.Context) (Event, error) {
	value := s.value()
	id, err := s.repo.Add(ctx, New{Value: value})
	if err != nil {
		return Event{}, err
	}
	return Event{ID: id, Value: value}, nil
}

// Enqueue adds a pending event and returns its id.
func (s *Service) Enqueue(ctx context.Context) (ID, error) {
	return s.repo.Add(ctx, New{Pending: true})
}

// Get returns one event, or ErrNotFound.
func (s *Service) Get(ctx context.Context, id ID) (Event, error) { return s.repo.Find(ctx, id) }

// Count returns the number of all events.
func (s *Service) Count(ctx context.Context) (int64, error) { return s.repo.Count(ctx) }
