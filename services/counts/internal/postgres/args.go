package postgres

import "github.com/lib/pq"

// countArrays returns the arrays that begin those of both statements: every count, with the values between which all
// parts fit together.
func (st *statement) countArrays() []any {
	lowest, highest := make(pq.Int64Array, len(st.ids)), make(pq.Int64Array, len(st.ids))
	for i := range st.ids {
		lowest[i], highest[i] = bounds(st.low[i], st.high[i])
	}
	return []any{pq.StringArray(st.ids), lowest, highest}
}

// arrays returns those of updatesSQL.
func (st *statement) arrays() []any {
	r, i, delta, at := pq.Int64Array{}, pq.Int64Array{}, pq.Int64Array{}, pq.Int64Array{}
	creates := pq.BoolArray{}
	changed, by := pq.Int64Array{}, pq.Int64Array{}
	keyed, callers, keys, fingerprints := pq.Int64Array{}, pq.StringArray{}, pq.StringArray{}, pq.ByteaArray{}
	for _, p := range st.parts {
		for n, step := range p.steps {
			r, i, delta = append(r, int64(p.r)), append(i, int64(p.counts[n]+1)), append(delta, step.delta)
			if p.keyed() {
				at = append(at, int64(step.first))
			}
			if p.keyed() || p.creates() {
				creates = append(creates, p.creates())
			}
		}
		if p.keyed() {
			k := p.update.Key
			keyed, callers, keys = append(keyed, int64(p.r)), append(callers, k.Caller), append(keys, k.Value)
			fingerprints = append(fingerprints, k.Fingerprint[:])
		}
		if st.alone {
			for index, d := range p.deltas() {
				changed, by = append(changed, int64(p.counts[p.stepOf(index)]+1)), append(by, d)
			}
		}
	}
	return append(st.countArrays(), r, i, delta, at, creates, changed, by, keyed, callers, keys, fingerprints)
}

// singleArrays returns those of singlesSQL.
func (st *statement) singleArrays() []any {
	totals, adds := make(pq.Int64Array, len(st.ids)), make(pq.BoolArray, len(st.ids))
	i, delta := make(pq.Int64Array, 0, st.keyed), make(pq.Int64Array, 0, st.keyed)
	callers, keys := make(pq.StringArray, 0, st.keyed), make(pq.StringArray, 0, st.keyed)
	fingerprints := make(pq.ByteaArray, 0, st.keyed)
	for _, p := range st.parts {
		count := p.counts[0]
		if !p.keyed() {
			totals[count] += p.steps[0].delta
			adds[count] = true
			continue
		}
		k := &p.update.Key
		i, delta = append(i, int64(count+1)), append(delta, p.steps[0].delta)
		callers, keys, fingerprints = append(callers, k.Caller), append(keys, k.Value), append(fingerprints, k.Fingerprint[:])
	}
	return append(st.countArrays(), totals, adds, i, delta, callers, keys, fingerprints)
}
