// Package nodepod runs short-lived pods with nadra-node on nodes, and returns their logs. A
// pod is deleted in any case, also after an interruption. A pod whose process was killed
// ends by itself, and the next process deletes it.
package nodepod
