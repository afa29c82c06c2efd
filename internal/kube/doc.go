// Package kube has what nadra's clients of the API server need and client-go lacks.
package kube
