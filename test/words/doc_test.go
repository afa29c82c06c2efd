// Package words holds the project's rules for comments, messages, log keys and the size of
// types, over the whole module:
//
//	source_test.go     reading the module's Go files
//	words_test.go      comments of functions and packages, log keys, methods of types
//	sentences_test.go  no program recognizes nadra's texts by their words
//	figures_test.go    the figures that `make figures` prints
package words
