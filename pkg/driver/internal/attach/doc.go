// Package attach attaches sandboxes to networks by running CNI plugins, and detaches
// them.
package attach
