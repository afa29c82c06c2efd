// Package words holds the project's rules for comments, messages, log keys and the size of
// types, over the whole module.
package words
