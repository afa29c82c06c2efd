package bundle

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// strength is the probability that a name's value is a credential.
type strength int

const (
	harmless strength = iota
	// weak names are also words of prose: "certificate: x509: unknown authority".
	weak
	strong
)

var (
	strongParts = []string{
		"password", "passwd", "passphrase", "secret", "token", "credential", "kubeconfig", "authorization",
		"bearer", "apikey", "privatekey", "accesskey", "jwt", "psk",
	}
	weakWords = []string{
		"keys", "auth", "authentication", "certs", "certificate", "certificates", "pem", "pw", "pin", "otp",
		"community", "cookie", "session", "signature",
	}
	// Ends of compound words: sshkey, cacert, bindpass.
	weakEnds    = []string{"key", "cert", "pass", "pwd", "auth"}
	ordinary    = []string{"bypass", "monkey"}
	unicodeRune = regexp.MustCompile(`\\+u00([0-7][0-9a-fA-F])`)
)

// strengthOf returns the strength of a name in any spelling: apiKey, API_KEY, api-key,
// api key.
func strengthOf(name string) strength {
	if strings.Contains(name, `\u00`) {
		name = unicodeRune.ReplaceAllStringFunc(name, unescape)
	}
	words := wordsOf(name)
	joined := strings.Join(words, "")
	if slices.ContainsFunc(strongParts, func(part string) bool { return strings.Contains(joined, part) }) {
		return strong
	}
	for _, word := range words {
		isEnd := func(end string) bool { return strings.HasSuffix(word, end) }
		if slices.Contains(weakWords, word) || slices.ContainsFunc(weakEnds, isEnd) && !slices.Contains(ordinary, word) {
			return weak
		}
	}
	return harmless
}

// unescape returns the letter that JSON may write as \u0070.
func unescape(code string) string {
	var r rune
	for _, digit := range strings.ToLower(code[len(code)-2:]) {
		r = r*16 + rune(strings.IndexRune("0123456789abcdef", digit))
	}
	return string(r)
}

// wordsOf splits a name at characters that are not letters or digits, and where a capital
// begins a word. The words are in lower case.
func wordsOf(name string) []string {
	var words []string
	var word []rune
	runes := []rune(name)
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = nil
		}
	}
	for i, r := range runes {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			end()
			continue
		}
		if i > 0 && unicode.IsUpper(r) {
			after := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if unicode.IsLower(runes[i-1]) || unicode.IsUpper(runes[i-1]) && after {
				end()
			}
		}
		word = append(word, r)
	}
	end()
	return words
}
