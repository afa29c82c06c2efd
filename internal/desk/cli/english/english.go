// Package english keeps kubectl's libraries from loading their translations, which takes a
// third of the start of kubectl-nadra: its own texts are English.
//
// kubectl loads them during package initialization. This must therefore be a package of its
// own, which is initialized before kubectl's packages with texts.
package english

import "k8s.io/kubectl/pkg/util/i18n"

func init() {
	if err := i18n.SetLoadTranslationsFunc(func() error { return nil }); err != nil {
		panic(err)
	}
}
