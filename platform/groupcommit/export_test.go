package groupcommit

import "context"

// CleanAll deletes what a round of Run deletes.
func (s *Slots) CleanAll(ctx context.Context) error { return s.cleanAll(ctx) }
