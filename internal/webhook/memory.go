package webhook

import (
	"sync"
	"time"
)

// memory remembers keys for a while.
type memory struct {
	lasting time.Duration
	mu      sync.Mutex
	until   map[string]time.Time
}

func newMemory(lasting time.Duration) *memory {
	return &memory{lasting: lasting, until: map[string]time.Time{}}
}

// maxMemory limits the memory that requests with arbitrary names can use.
const maxMemory = 10_000

func (m *memory) add(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.until) >= maxMemory {
		m.forget()
	}
	m.until[key] = time.Now().Add(m.lasting)
}

// forget removes the expired keys, or all keys if too many remain.
func (m *memory) forget() {
	now := time.Now()
	for key, until := range m.until {
		if now.After(until) {
			delete(m.until, key)
		}
	}
	if len(m.until) >= maxMemory {
		clear(m.until)
	}
}

func (m *memory) has(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	until, found := m.until[key]
	if found && time.Now().After(until) {
		delete(m.until, key)
		return false
	}
	return found
}
