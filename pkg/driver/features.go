package driver

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
)

const (
	// featureWait limits how long the start waits for the API server's answer.
	featureWait = 10 * time.Second
	// featurePause is the pause between questions while a feature is missing: an upgrade of
	// the cluster may bring it.
	featurePause = 15 * time.Minute
)

// sliceFeatures knows what the API server keeps of slices, and tells the publishers.
type sliceFeatures struct {
	ask func(context.Context) (slicewriter.Features, error)
	use func(slicewriter.Features)

	mu    sync.Mutex
	known slicewriter.Features
}

// start asks for the first time, before anything is published. Without an answer it assumes
// that nothing is missing; the first publication then finds out.
func (s *sliceFeatures) start(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, featureWait)
	defer cancel()
	s.askAgain(ctx)
}

// run asks again from time to time while a feature is missing.
func (s *sliceFeatures) run(ctx context.Context) error {
	for background.Sleep(ctx, featurePause) {
		if s.get() != slicewriter.AllFeatures {
			s.askAgain(ctx)
		}
	}
	return nil
}

func (s *sliceFeatures) askAgain(ctx context.Context) {
	features, err := s.ask(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Which features of slices the API server has is not known")
		return
	}
	if s.set(features) {
		klog.FromContext(ctx).Info("The API server's features of slices have changed", "features", features)
	}
}

// dropped learns from what the API server has dropped, which it reports for each slice. It
// returns false if the driver does not use the features of these gates.
func (s *sliceFeatures) dropped(gates []string) bool {
	s.set(s.get().Without(gates))
	return slicewriter.AllFeatures.Without(gates) != slicewriter.AllFeatures
}

func (s *sliceFeatures) get() slicewriter.Features {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

// set tells the publishers of features that have changed, and returns whether they have.
func (s *sliceFeatures) set(features slicewriter.Features) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == features {
		return false
	}
	s.known = features
	s.use(features)
	return true
}
