package multusstate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// awaitInterval is the time between two looks at Multus' files.
const awaitInterval = 200 * time.Millisecond

// maxListed is the number of sandboxes that an error lists.
const maxListed = 3

// Namespaces lists the interfaces of the network namespace at a path in the host. It returns
// podns.ErrGone if there is none.
type Namespaces func(path string) (links []string, err error)

// Check reports what nadra would adopt. It returns an error if a sandbox that exists could not be
// adopted as it is now.
func (d Dir) Check(links Namespaces) (probe.MultusReport, error) {
	var out probe.MultusReport
	sandboxes, problems, err := d.Sandboxes()
	if err != nil {
		return out, err
	}
	for _, s := range sandboxes {
		there, err := links(s.NetNS)
		switch {
		case s.NetNS == "", errors.Is(err, podns.ErrGone):
			out.Gone++
			continue
		case err == nil && !s.Complete():
			err = errors.New("some of its networks are not attached yet, or Multus has failed to attach them")
		}
		if err != nil {
			problems = append(problems, Problem{Sandbox: s.ID, Pod: podName(s), Error: err.Error()})
			continue
		}
		out.Sandboxes++
		out.Networks += len(s.Attachments)
		for _, a := range s.Attachments {
			if !slices.Contains(there, a.Interface) {
				out.Missing = append(out.Missing, s.Pod.String()+" "+a.Interface)
			}
		}
	}
	return out, refusal(problems)
}

// AwaitAdopted waits until nadra's driver has taken all sandboxes, and returns an error with those
// that are left when ctx ends before. It does not wait for a sandbox of which no ADD has succeeded,
// because nobody has to run a DEL for it: the driver takes its file when it is certain that Multus
// does not go on.
func (d Dir) AwaitAdopted(ctx context.Context) error {
	var left []Problem
	err := wait.PollUntilContextCancel(ctx, awaitInterval, true, func(context.Context) (bool, error) {
		sandboxes, problems, err := d.Sandboxes()
		left = problems
		for _, s := range sandboxes {
			if s.Pod.UID == "" {
				continue
			}
			left = append(left, Problem{Sandbox: s.ID, Pod: podName(s), Error: "nadra's driver has not taken it: read the driver's log on this node"})
		}
		return len(left) == 0, err
	})
	if len(left) > 0 {
		return refusal(left)
	}
	return err
}

// AwaitReturned waits until nadra's driver has given back the sandboxes that exist, and returns an
// error when ctx ends before.
func (d Dir) AwaitReturned(ctx context.Context, links Namespaces) error {
	var left []string
	err := wait.PollUntilContextCancel(ctx, awaitInterval, true, func(context.Context) (bool, error) {
		taken, problems, err := d.Taken()
		left = nil
		for _, s := range taken {
			if _, err := links(s.NetNS); s.NetNS != "" && !errors.Is(err, podns.ErrGone) {
				left = append(left, fmt.Sprintf("%.12s of pod %s", s.ID, podName(s)))
			}
		}
		for _, p := range problems {
			left = append(left, fmt.Sprintf("%.12s: %s", p.Sandbox, p.Error))
		}
		return len(left) == 0, err
	})
	if len(left) > 0 {
		return reason.Errorf(reason.NotReturned, "nadra's driver still has %d sandboxes of Multus: %s", len(left), strings.Join(words.ShortList(left, maxListed), "; "))
	}
	return err
}

// refusal returns an error for sandboxes that cannot be adopted, or nil for none.
func refusal(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	texts := make([]string, len(problems))
	for i, p := range problems {
		texts[i] = fmt.Sprintf("%.12s of pod %s: %s", p.Sandbox, p.Pod, p.Error)
	}
	return reason.Errorf(reason.NotAdopted, "%d sandboxes of Multus cannot be adopted: %s", len(problems), strings.Join(words.ShortList(texts, maxListed), "; "))
}
