package groupcommit

import "context"

// CleanAll makes one round of Run.
func (s *Slots) CleanAll(ctx context.Context) error { return s.cleanAll(ctx) }
