# Edits the generated openapi.yaml, for what the generator has no option for: createPot instead of pyggpot.pot.Pot.CreatePot
# as an operation's name, and the examples of openapi.base.yaml in the answers.
s/^( +operationId: )pyggpot\.[a-z]+\.[A-Za-z]+\.([A-Z])/\1\L\2/
s|^( {14})  \$ref: '#/components/schemas/pyggpot\.[a-z]+\.([A-Za-z]+Response)'$|&\n\1examples: {example: {$ref: '#/components/examples/\2'}}|
