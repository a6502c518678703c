# Edits the generated Twirp client, for what its generator has no option for: its messages are those of client/pyggpot.
s,^package (coin|pot)$,&\n\nimport . "github.com/rowlock/rowlock/client/pyggpot/\1",
