//go:build e2e

package faults

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// bridgePrefix begins the names of bridges. The bridge plugin creates them and, by design,
// never removes them.
const bridgePrefix = "br-flt"

// left lists resources on the node and in the namespace that did not exist before.
func (s *suite) left(ctx context.Context) ([]string, error) {
	now, err := lab.TakeSnapshot(s.node)
	if err != nil {
		return nil, fmt.Errorf("looking for leftovers: %w", err)
	}
	s.upstream.forgotten, s.upstream.torn = nil, nil
	var left []string
	for _, what := range now.Added(s.before) {
		forgotten, err := s.forgotten(what)
		if err != nil {
			return nil, fmt.Errorf("looking for leftovers: %w", err)
		}
		torn, err := s.torn(what)
		if err != nil {
			return nil, fmt.Errorf("looking for leftovers: %w", err)
		}
		switch {
		case forgotten:
			s.upstream.forgotten = append(s.upstream.forgotten, what)
		case torn:
			s.upstream.torn = append(s.upstream.torn, what)
		case !strings.HasPrefix(what, "link "+bridgePrefix):
			left = append(left, what)
		}
	}
	for _, list := range []func(context.Context) ([]string, error){s.leftClaims, s.leftProcesses, s.leftState} {
		more, err := list(ctx)
		if err != nil {
			return nil, fmt.Errorf("looking for leftovers: %w", err)
		}
		left = append(left, more...)
	}
	return left, nil
}

func (s *suite) leftClaims(ctx context.Context) ([]string, error) {
	claims, err := s.Kube.ResourceV1().ResourceClaims(s.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var left []string
	for _, c := range claims.Items {
		left = append(left, "ResourceClaim "+c.Name)
	}
	return left, nil
}

func (s *suite) leftProcesses(context.Context) ([]string, error) {
	gates, err := lab.Processes(s.node, "nadra-gate")
	if err != nil {
		return nil, err
	}
	var left []string
	for _, pid := range gates {
		left = append(left, "gate process "+pid)
	}
	running, err := plugins(s.node)
	if err != nil {
		return nil, err
	}
	for _, pid := range running {
		left = append(left, "plugin process "+pid)
	}
	return left, nil
}

// leftState lists pending DELs, and damaged records, which a killed driver must never leave
// behind.
func (s *suite) leftState(context.Context) ([]string, error) {
	root, err := s.node.HostPath(stateDir)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, what := range []string{"pending-dels", "damaged"} {
		files, err := filepath.Glob(filepath.Join(root, what, "*"))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			left = append(left, what+" record "+filepath.Base(f))
		}
	}
	return left, nil
}

// leaks waits until nothing is left, and returns what remains after the limit.
func (s *suite) leaks(ctx context.Context, limit time.Duration) []string {
	var left []string
	err := lab.Eventually(ctx, limit, func(ctx context.Context) error {
		found, err := s.left(ctx)
		if err == nil || ctx.Err() == nil {
			left = found // the limit has ended this look
		}
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d things are left", len(left))
		}
		return err
	})
	if err != nil && len(left) == 0 {
		left = []string{err.Error()} // an unknown state is not an empty one
	}
	return left
}
