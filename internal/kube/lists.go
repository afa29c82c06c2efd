package kube

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// All are the options for all objects of a kind, and OwnSlices those for the ResourceSlices of nadra.
var (
	All       = metav1.ListOptions{}
	OwnSlices = metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + v1alpha1.DriverName}
)

// List is the List method of a client. It lists objects of one kind, one page at a time.
type List[L runtime.Object] = func(context.Context, metav1.ListOptions) (L, error)

// pages adapts the List method of a typed client.
func pages[L runtime.Object](list List[L]) *pager.ListPager {
	return pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) })
}

// EachItem calls do for every object of every page. It returns the client's error
// as it is, for the caller to wrap.
func EachItem[T any, L runtime.Object](ctx context.Context, o metav1.ListOptions, list List[L], do func(*T)) error {
	return pages(list).EachListItem(ctx, o, func(object runtime.Object) error {
		item, ok := any(object).(*T)
		if !ok {
			return fmt.Errorf("reading a list: it contains a %T, not a %T", object, item)
		}
		do(item)
		return nil
	})
}

// EachReadable calls do for every object of a kind that the caller can do without. It
// reports false if the user is not allowed to list the kind, and reads a kind that the
// cluster does not have as an empty list.
func EachReadable[T any, L runtime.Object](ctx context.Context, o metav1.ListOptions, list List[L], do func(*T)) (allowed bool, err error) {
	err = EachItem(ctx, o, list, do)
	switch {
	case apierrors.IsForbidden(err):
		return false, nil
	case apierrors.IsNotFound(err):
		return true, nil
	}
	return err == nil, err
}

// AllItems returns the objects of all pages, and errors like EachItem.
func AllItems[T any, L runtime.Object](ctx context.Context, o metav1.ListOptions, list List[L]) ([]*T, error) {
	var out []*T
	err := EachItem(ctx, o, list, func(item *T) { out = append(out, item) })
	return out, err
}

// Into returns a function for EachItem that appends objects to a list.
func Into[T any](to *[]T) func(*T) { return func(item *T) { *to = append(*to, *item) } }

// Append appends the objects of all pages to a list. kind names them in errors.
func Append[T any, L runtime.Object](ctx context.Context, kind string, o metav1.ListOptions, list List[L], to *[]T) error {
	if err := EachItem(ctx, o, list, Into(to)); err != nil {
		return fmt.Errorf("listing %s: %w", kind, err)
	}
	return nil
}
