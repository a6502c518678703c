package problem

type Error struct{}
