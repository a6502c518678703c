package counts

var Used = 1
