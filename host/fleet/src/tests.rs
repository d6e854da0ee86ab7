//! Tests of leases and placement together.

mod simulation;
