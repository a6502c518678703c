package httpapi

import (
	"net/http"
)

func (h handlers) claim(w http.ResponseWriter, r *http.Request, q query) error {
	list, err := listOf(r)
	if err != nil {
		return err
	}
	if err := q.only(paramAction, paramCount, paramLease); err != nil {
		return err
	}
	count, err := q.count()
	if err != nil {
		return err
	}
	lease, err := q.lease()
	if err != nil {
		return err
	}
	taken, err := h.port.Claim(r.Context(), list, count, lease)
	if err != nil {
		return err
	}
	return writeLease(w, r, taken)
}

func (h handlers) extend(w http.ResponseWriter, r *http.Request, q query) error {
	list, err := listOf(r)
	if err != nil {
		return err
	}
	if err := q.only(paramAction, paramClaim, paramLease); err != nil {
		return err
	}
	claim, err := q.wantedClaim()
	if err != nil {
		return err
	}
	lease, err := q.lease()
	if err != nil {
		return err
	}
	n, err := h.port.Extend(r.Context(), list, claim, lease)
	if err != nil {
		return err
	}
	return writeCount(w, r, http.StatusOK, "extended", n)
}

func (h handlers) release(w http.ResponseWriter, r *http.Request, q query) error {
	list, err := listOf(r)
	if err != nil {
		return err
	}
	if err := q.only(paramAction, paramClaim); err != nil {
		return err
	}
	claim, err := q.wantedClaim()
	if err != nil {
		return err
	}
	n, err := h.port.Release(r.Context(), list, claim)
	if err != nil {
		return err
	}
	return writeCount(w, r, http.StatusOK, "released", n)
}
