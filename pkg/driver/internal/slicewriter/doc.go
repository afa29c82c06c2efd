// Package slicewriter brings together the DRA pools of several publishers, because the
// kubeletplugin library takes all pools of a driver at once.
package slicewriter
