//go:build !failpoints

package failpoint

// Reach does nothing in this build.
func Reach(Point) {}

// Soon does nothing in this build.
func Soon(Point) {}

// Off returns false in this build.
func Off(Guard) bool { return false }
