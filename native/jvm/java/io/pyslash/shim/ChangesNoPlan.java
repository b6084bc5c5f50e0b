package io.pyslash.shim;

/** A rule of a session that leaves all plans as they are. */
public interface ChangesNoPlan {}
