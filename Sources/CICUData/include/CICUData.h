// Nothing is declared: this target's object takes the place of a file of the toolchain's at linking.
