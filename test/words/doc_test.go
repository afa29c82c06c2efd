// Package words holds the project's rules for comments, log keys and the size of types, over
// the whole module:
//
//	source_test.go   reading the module's Go files
//	words_test.go    comments of functions and packages, log keys, methods of types
//	figures_test.go  the figures that `make figures` prints
package words
