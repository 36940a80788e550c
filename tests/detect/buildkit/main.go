// Reads a Dockerfile with the parser of BuildKit and prints what it and its linter say of it.
package main

import (
	"fmt"
	"os"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func main() {
	parsed, err := parser.Parse(os.Stdin)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	said := false
	say := func(rule, _, _, message string, at []parser.Range) {
		said = true
		line := 0
		if len(at) > 0 {
			line = at[0].Start.Line
		}
		fmt.Printf("line %d: %s: %s\n", line, rule, message)
	}
	for _, warning := range parsed.Warnings {
		say("parser", "", "", warning.Short, []parser.Range{*warning.Location})
	}
	if _, _, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{Warn: say})); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if said {
		os.Exit(1)
	}
}
