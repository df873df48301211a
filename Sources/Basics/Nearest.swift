/// Guesses which known word a mistyped one stands for.
package enum Nearest {
    /// The known word that `text` most resembles, if any is near enough to be meant.
    package static func of(_ text: String, among known: [String]) -> String? {
        let editsMax = max(2, text.count / 3)
        return known.map { (word: $0, edits: editDistance($0.lowercased(), text.lowercased())) }
            .filter { $0.edits <= editsMax && $0.edits < max($0.word.count, text.count) }
            .min { $0.edits < $1.edits }?.word
    }

    /// The end of a message that `text` is not known: which word is meant, if any is near enough.
    package static func guess(_ text: String, among known: [String]) -> String {
        of(text, among: known).map { ", did you mean \($0)?" } ?? ""
    }
}

/// Levenshtein distance over Unicode scalars.
package func editDistance(_ left: String, _ right: String) -> Int {
    let left = Array(left.unicodeScalars)
    let right = Array(right.unicodeScalars)
    var row = Array(0...right.count)
    for (i, a) in left.enumerated() {
        var diagonal = row[0]
        row[0] = i + 1
        for (j, b) in right.enumerated() {
            let substituted = diagonal + (a == b ? 0 : 1)
            diagonal = row[j + 1]
            row[j + 1] = min(substituted, row[j] + 1, row[j + 1] + 1)
        }
    }
    return row[right.count]
}
