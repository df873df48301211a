import Foundation

/// The checkout that these tests were built from.
let repositoryRoot = URL(filePath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent()
