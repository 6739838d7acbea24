//! Decisions on trees written down as literals: no file is looked at.
