// Package paged reads lists of typed clients in pages: large clusters have more
// objects of a kind than one answer should hold.
package paged

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// Lister lists objects of one kind.
type Lister func(context.Context, metav1.ListOptions) (runtime.Object, error)

// List makes a typed client's List one of any objects.
func List[L runtime.Object](f func(context.Context, metav1.ListOptions) (L, error)) Lister {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return f(ctx, o) }
}

// All reads all pages. Errors are the client's own, for the caller to wrap.
func All[T any](ctx context.Context, o metav1.ListOptions, f Lister) ([]*T, error) {
	var out []*T
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return f(ctx, o) })
	err := p.EachListItem(ctx, o, func(object runtime.Object) error {
		item, ok := any(object).(*T)
		if !ok {
			return fmt.Errorf("reading %T: it is not what was asked for", object)
		}
		out = append(out, item)
		return nil
	})
	return out, err
}
