package cluster

import "testing"

// TestStackWith finds the goroutine of a function in a program's last output.
func TestStackWith(t *testing.T) {
	const log = "I1126 starting\nSIGQUIT: quit\n\ngoroutine 1 [select]:\nmain.main()\n\t/main.go:1\n\n" +
		"goroutine 7 [IO wait, 2 minutes]:\ninternal/poll.runtime_pollWait(0x1)\n\t/netpoll.go:1\nk8s.io/kubelet.(*Kubelet).updateRuntimeUp(0x2)\n\t/kubelet.go:1\n"
	const want = "goroutine 7 [IO wait, 2 minutes]:\ninternal/poll.runtime_pollWait(0x1)\nk8s.io/kubelet.(*Kubelet).updateRuntimeUp(0x2)"
	if got := stackWith(log, "(*Kubelet).syncNodeStatus(", "(*Kubelet).updateRuntimeUp("); got != want+"\n" && got != want {
		t.Errorf("got %q", got)
	}
	if got := stackWith(log, "other"); got != "none of other" {
		t.Errorf("got %q", got)
	}
}
