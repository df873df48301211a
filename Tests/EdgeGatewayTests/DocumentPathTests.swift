import Foundation
import Testing

/// A message, a comment, a script or a page that names a page names one that is there, and a section
/// that is in it.
@Suite struct DocumentPathTests {
    private static let folders = ["Sources", "Tests", "deploy", "Benchmarks", "Examples", "docs"]
    private static let files = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile"]

    /// A message sent people to a section that had another name by then.
    @Test func everyPageAndSectionThatIsNamedIsThere() throws {
        let pages = try Pages()
        var count = 0
        for (name, text) in try Self.texts() {
            let found = pages.references(in: text, of: name)
            count += found.count
            for reference in found {
                let fault = pages.fault(of: reference, in: name)
                #expect(fault == nil, "\(name): \(reference): \(fault ?? "")")
            }
        }
        #expect(count > 300)
    }

    /// The package installs `docs` beside README.md, so that a message's path is one there as well.
    @Test func theUnitsNamePagesOfTheInstalledPackage() throws {
        let installed = "file:/usr/share/doc/edge-gateway/"
        var count = 0
        for (name, text) in try Self.texts() where name.hasPrefix("deploy/") {
            for part in text.components(separatedBy: installed).dropFirst() {
                let path = String(part.prefix { !$0.isWhitespace })
                count += 1
                let page = repositoryRoot.appending(path: path)
                #expect(FileManager.default.fileExists(atPath: page.path), "\(name): \(path)")
            }
        }
        #expect(count > 4)
        let documents = try String(
            contentsOf: repositoryRoot.appending(path: "deploy/debian/edge-gateway.docs"),
            encoding: .utf8)
        #expect(documents.split(separator: "\n").contains("docs"))
    }

    @Test(
        arguments: [
            ("/// As docs/operate/none.md says", "there is no docs/operate/none.md"),
            ("see operations.md", "write it with its folder"),
            ("/// (docs/none.md)", "there is no docs/none.md"),
            ("(operations.md, \"Health\")", "write it with its folder"),
            (#""docs/operate/operations.md, \"No such\"""#, "it has no section No such"),
            (
                "// docs/operate/operations.md,\n    /// \"No\n    /// such\"",
                "it has no section No such"
            ),
            ("[a](operations.md)", "there is no docs/use/operations.md"),
            ("[a](../operate/operations.md#no-such)", "it has no anchor no-such"),
            ("[a](#no-such)", "it has no anchor no-such"),
        ])
    func aBrokenReferenceIsFound(text: String, fault: String) throws {
        let pages = try Pages()
        let found = pages.references(in: text, of: "docs/use/page.md").compactMap {
            pages.fault(of: $0, in: "docs/use/page.md")
        }
        #expect(found == [fault])
    }

    /// Every text that may name a page: its path and its contents.
    private static func texts() throws -> [(String, String)] {
        var names = files
        for folder in folders {
            let path = repositoryRoot.appending(path: folder).path
            names += try FileManager.default.subpathsOfDirectory(atPath: path)
                .map { "\(folder)/\($0)" }
        }
        return names.compactMap { name in
            guard name != "Tests/EdgeGatewayTests/DocumentPathTests.swift",
                let data = try? Data(contentsOf: repositoryRoot.appending(path: name)),
                data.count < 1 << 20,
                data.range(of: Data("docs/".utf8)) != nil
                    || data.range(of: Data(".md".utf8)) != nil,
                let text = String(data: data, encoding: .utf8)
            else { return nil }
            return (name, text)
        }
    }
}

/// The pages of `docs`, and what texts say about them.
private struct Pages {
    struct Reference: CustomStringConvertible {
        var path: String
        var anchor: String?
        var section: String?
        /// The name of a page without its folder: it can be found by nobody.
        var isBare = false

        var description: String { path + (anchor.map { "#\($0)" } ?? "") }
    }

    private let names: Set<String>
    /// The links of a Markdown page to other files here.
    private let link = try? NSRegularExpression(pattern: #"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)"#)
    /// `docs/…`, and `, "Section"` behind it.
    private let path = try? NSRegularExpression(
        pattern: #"(?<![\w/-])(?<!\]\()(docs/[\w/-]+\.(?:md|yaml|png|svg))(?:#([\w-]+))?"#
            + #"(?:, \\?"([^"\\]+)\\?")?"#)
    private let bare: NSRegularExpression

    init() throws {
        let docs = repositoryRoot.appending(path: "docs").path
        names = Set(
            try FileManager.default.subpathsOfDirectory(atPath: docs).filter { $0.hasSuffix(".md") }
                .compactMap { $0.split(separator: "/").last.map(String.init) })
        bare = try NSRegularExpression(
            pattern: #"(?<![\w/\[#.-])(?<!\]\()("#
                + names.sorted().map { NSRegularExpression.escapedPattern(for: $0) }
                .joined(separator: "|") + ")")
    }

    func references(in text: String, of name: String) -> [Reference] {
        var found: [Reference] = []
        if name.hasSuffix(".md") {
            let folder = name.split(separator: "/").dropLast().joined(separator: "/")
            for match in Self.matches(of: link, in: text) {
                let target = match[1] ?? ""
                let file =
                    target.isEmpty
                    ? name : Self.resolve(folder.isEmpty ? target : "\(folder)/\(target)")
                found.append(Reference(path: file, anchor: match[2]))
            }
        }
        // A comment or a paragraph may break between a page and its section.
        let flat = text.replacingOccurrences(
            of: #"\n[ \t]*(?:///?|#|--)?[ \t]*"#, with: " ", options: .regularExpression)
        found += Self.matches(of: path, in: flat).map {
            Reference(path: $0[1] ?? "", anchor: $0[2], section: $0[3])
        }
        found += Self.matches(of: bare, in: flat).map { Reference(path: $0[1] ?? "", isBare: true) }
        return found
    }

    /// Why a reference leads nowhere.
    func fault(of reference: Reference, in name: String) -> String? {
        if reference.isBare { return "write it with its folder" }
        let file = repositoryRoot.appending(path: reference.path)
        let isItself = reference.path == name
        guard isItself || FileManager.default.fileExists(atPath: file.path) else {
            return "there is no \(reference.path)"
        }
        guard reference.anchor != nil || reference.section != nil else { return nil }
        let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
        var isCode = false
        let headings = text.split(separator: "\n").filter { line in
            if line.hasPrefix("```") { isCode.toggle() }
            return line.hasPrefix("#") && !isCode
        }.map { $0.drop { $0 == "#" }.dropFirst() }
        if let section = reference.section, !headings.contains(where: { $0 == section }) {
            return "it has no section \(section)"
        }
        if let anchor = reference.anchor, !headings.contains(where: { Self.anchor($0) == anchor }) {
            return "it has no anchor \(anchor)"
        }
        return nil
    }

    /// The anchor that a heading has on a site and at GitHub.
    private static func anchor(_ heading: Substring) -> String {
        String(
            heading.lowercased().compactMap { character -> Character? in
                if character == " " { return "-" }
                return character.isLetter || character.isNumber || "-_".contains(character)
                    ? character : nil
            })
    }

    private static func resolve(_ path: String) -> String {
        var parts: [Substring] = []
        for part in path.split(separator: "/") {
            if part == ".." { _ = parts.popLast() } else if part != "." { parts.append(part) }
        }
        return parts.joined(separator: "/")
    }

    private static func matches(of expression: NSRegularExpression?, in text: String) -> [[String?]]
    {
        guard let expression else { return [] }
        return expression.matches(in: text, range: NSRange(text.startIndex..., in: text)).map {
            match in
            (0..<match.numberOfRanges).map { index in
                Range(match.range(at: index), in: text).map { String(text[$0]) }
            }
        }
    }
}
