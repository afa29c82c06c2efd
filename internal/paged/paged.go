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
type Lister = pager.ListPageFunc

// List makes a typed client's List one of any objects.
func List[L runtime.Object](f func(context.Context, metav1.ListOptions) (L, error)) Lister {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return f(ctx, o) }
}

// Each calls do for all objects of all pages. Errors are the client's own, for
// the caller to wrap.
func Each[T any](ctx context.Context, o metav1.ListOptions, f Lister, do func(*T)) error {
	return pager.New(f).EachListItem(ctx, o, func(object runtime.Object) error {
		item, ok := any(object).(*T)
		if !ok {
			return fmt.Errorf("reading %T: it is not what was asked for", object)
		}
		do(item)
		return nil
	})
}

// All returns the objects of all pages, and errors as Each does.
func All[T any](ctx context.Context, o metav1.ListOptions, f Lister) ([]*T, error) {
	var out []*T
	err := Each(ctx, o, f, func(item *T) { out = append(out, item) })
	return out, err
}
