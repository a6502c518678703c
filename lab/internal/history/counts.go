package history

// CountInput describes an operation on a counter: a change by Delta, or a read when it
// is 0. The output is the counter's value, an int64.
type CountInput struct{ Delta int64 }

// Counts returns the model of a counter that begins at 0.
func Counts() Model {
	return newModel(int64(0), func(value int64, in CountInput, op Op) []int64 {
		value += in.Delta
		return when(op.Outcome == Unknown || op.Output == value, value)
	})
}
