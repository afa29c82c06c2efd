// Package publish publishes the networks that this node can attach as ResourceSlices.
package publish
