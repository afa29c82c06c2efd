// Package english keeps kubectl's libraries from loading their translations,
// which takes a third of the start of kubectl-nadra: its own texts are English.
//
// kubectl loads them in package initialization, so that this must be a package
// of its own, which is initialized before any of kubectl's that has texts.
package english

import "k8s.io/kubectl/pkg/util/i18n"

func init() {
	if err := i18n.SetLoadTranslationsFunc(func() error { return nil }); err != nil {
		panic(err)
	}
}
