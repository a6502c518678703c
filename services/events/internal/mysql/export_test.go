package mysql

// Parts is the number of partitions of the pending events.
const Parts = parts
