package kube

import "strings"

// NoTurnLeft reports whether client-go has not sent a request, because its rate limiter has
// no turn left before the context's deadline. It says so before the deadline, by an error
// that has only its text. The error says nothing about the cluster.
func NoTurnLeft(err error) bool {
	return err != nil && strings.Contains(err.Error(), "would exceed context deadline")
}
