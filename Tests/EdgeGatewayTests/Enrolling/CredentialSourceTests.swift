import Foundation
import Testing
import Uplink

@testable import EdgeGateway

@Suite struct CredentialSourceTests {
    /// `enroll --file DIRECTORY` said that there is no such file; `--picture` asked for a sharper one.
    @Test func aDirectoryInPlaceOfAFileIsCalledSo() {
        let path = FileManager.default.temporaryDirectory.path
        for read in [
            { try CredentialSource.text(ofFile: path, bytesMax: 10) },
            { try CredentialSource.link(inPicture: path) },
            { try CredentialSource.practitionerKey(inFile: path).exchange ?? "" },
        ] {
            let failure = #expect(throws: CommandFailure.self) { _ = try read() }
            #expect(failure?.message.contains("it is a directory") == true)
        }
    }
}
