package io.pyslash.core;

/** The rows of one input of an operator that has several. */
public interface InputRows {
  /** Which one, from 0. */
  int input();

  /** The id of the accumulator that counts its rows that are late. */
  long lateMetric();
}
