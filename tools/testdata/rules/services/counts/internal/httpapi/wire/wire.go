package wire

var Used = 1
